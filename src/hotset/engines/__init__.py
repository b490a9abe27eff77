"""The Engine port and what stands behind it. No tenants, quotas or rollouts here."""
