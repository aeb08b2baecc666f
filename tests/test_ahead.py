"""Parts that are made while somebody looks at the one before."""

import threading

import pytest

from maxplus.tables.ahead import ahead


def test_parts_come_in_their_order():
    assert list(ahead(range(5))) == [0, 1, 2, 3, 4]
    assert list(ahead([])) == []


def test_the_next_part_is_made_while_one_is_looked_at():
    made = [threading.Event() for _ in range(3)]

    def parts():
        for event in made:
            event.set()
            yield event

    for k, _ in enumerate(ahead(parts())):
        assert all(event.wait(5.0) for event in made[: k + 2])
        # One ahead, and no more: memory holds two parts.
        assert not any(event.is_set() for event in made[k + 2 :])


def test_an_error_comes_where_it_would_have():
    def parts():
        yield 1
        raise ValueError("line 7 is damaged")

    found = ahead(parts())
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
    found = ahead(made)
    next(found)
    found.close()
    made.close()
    assert closed.is_set()
