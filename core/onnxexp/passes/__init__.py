"""Rewrites of the captured graph and of the finished model; `running` says in what order and whose they are."""
