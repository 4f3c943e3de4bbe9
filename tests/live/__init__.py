"""Tests with real models, real servers and real minutes, and the servers that they need."""
