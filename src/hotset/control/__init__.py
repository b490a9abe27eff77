"""The operator plane: publish, prove, approve, promote, tenants, keys, snapshots. No token traffic passes here."""
