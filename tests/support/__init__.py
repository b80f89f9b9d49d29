"""What the tests stand on: sick stores, healthy stores, real stores, and the service as a user starts it."""
