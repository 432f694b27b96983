"""Measuring a pair of models: recorded rounds and step times become a profile and a report (`saguaro calibrate`).

Must not know: the command line. Tests: tests/calibrate/.
"""
