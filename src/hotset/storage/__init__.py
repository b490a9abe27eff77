"""The state folder, the database, the audit log, content-addressed blobs. No policy, no change of what was published."""
