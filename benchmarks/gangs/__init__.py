"""Gangs in virtual time: files with nodes and gangs, played through the scheduler itself."""
