"""Trials in a virtual machine with systemd and control groups of version 2: python -m tests.virtual_machine.

Called explicitly, by root, on Debian or a system that has debootstrap; takes about two hours without KVM.
"""
