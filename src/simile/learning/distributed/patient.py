"""What a worker on this machine runs first: Ctrl-C goes to all processes of a terminal, and ours tells it to stop."""

import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)
