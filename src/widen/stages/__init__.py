"""What a backend must do: the protocol, the record of a run, error bounds of both wings."""
