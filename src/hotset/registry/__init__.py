"""What a version is: digests, safetensors headers, PEFT configs, verification, approvals, the life cycle.

Pure over bytes that are handed in: this room opens no file, unpickles nothing, imports nothing from an
adapter and never goes to the network. Only `verify` can make a `VerifiedVersion`, only `check_approval`
an `ApprovedVersion`.
"""
