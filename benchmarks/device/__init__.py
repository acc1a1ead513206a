"""Machines on microcontrollers: kernlet's C beside that of other libraries."""
