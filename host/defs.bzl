"""What the host's own libraries are compiled with."""

# For every library with a file that calls a plugin's slot or entry (rule 26): an exception that a
# plugin lets escape then ends the process at the boundary instead of skipping our clean-up.
SLOT_CALLER_COPTS = [
    "-fno-exceptions",
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
]
