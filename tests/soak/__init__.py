"""Random trials for any length of time: `make soak`. Name and seed reproduce each of them."""
