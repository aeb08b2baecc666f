"""Random trials for as long as one likes: `make soak`. Each is repeated by its name and seed."""
