"""How much memory a call takes."""

import tracemalloc


def most_memory(call):
    """Bytes that a call has at once, beyond those before it."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
