"""Parts of a table that are read ahead by a thread."""

import threading

import pytest

from maxplus.tables.dataset import prefetch


def test_parts_come_in_their_order():
    assert list(prefetch(range(5))) == [0, 1, 2, 3, 4]
    assert list(prefetch([])) == []


def test_the_next_part_is_made_while_one_is_looked_at():
    made = [threading.Event() for _ in range(3)]

    def parts():
        for event in made:
            event.set()
            yield event

    for k, _ in enumerate(prefetch(parts())):
        assert all(event.wait(5.0) for event in made[: k + 2])
        # One ahead, and no more: memory holds two parts.
        assert not any(event.is_set() for event in made[k + 2 :])


def test_an_error_comes_where_it_would_have():
    def parts():
        yield 1
        raise ValueError("line 7 is damaged")

    found = prefetch(parts())
    assert next(found) == 1
    with pytest.raises(ValueError, match="line 7"):
        next(found)


def test_somebody_may_stop():
    closed = threading.Event()

    def parts():
        try:
            yield from range(100)
        finally:
            closed.set()

    made = parts()
    found = prefetch(made)
    next(found)
    found.close()
    made.close()
    assert closed.is_set()
