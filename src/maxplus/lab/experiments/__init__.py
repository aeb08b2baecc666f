"""One experiment a file, with ``run(settings) -> Finding``; `maxplus.lab.registry` names them."""

__all__: list[str] = []
