"""Ballast beside the programs that do the same work: scripts/bench_peers.

rows.py says what is measured, kinds.py how each kind of work is done, programs/ has a module for each program that it is
compared with, measuring.py takes the turns and keeps the results, tables.py and scaling.py show them.
"""
