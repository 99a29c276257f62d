"""What `serving.py` and `soak.py` share: a policy to serve, a server in a process of its own, and traffic for it."""
