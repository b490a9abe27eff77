"""The state folder, the database, the audit log, blobs. No policy, no change of what was published."""
