"""How processes of one installation speak: frames, addresses, links, and the protocols over them. Decides nothing."""
