"""The fixed texts by which a version's effect on its base is measured at ``prove``.

Short, so that they fit any context, and varied in subject and form, so that most adapters move at least one. A stored
fingerprint quotes its text, so changing this list never makes an old fingerprint useless.
"""

PROBES: tuple[str, ...] = (
    "The ship left the harbour before dawn, and nobody on the quay said a word until its lights had gone.",
    "Question: Why is the sky blue?\nAnswer: Sunlight is scattered by the air, and blue light is scattered most.",
    "Dear customer, thank you for your message. We are sorry that your order arrived late and will refund you.",
    "def mean(values):\n    total = sum(values)\n    return total / len(values)\n",
    '{"name": "Ada", "age": 36, "languages": ["English", "French"], "active": true}',
    "SELECT name, COUNT(*) FROM orders WHERE paid = 1 GROUP BY name ORDER BY name;",
    "Twelve times twelve is one hundred and forty-four, and half of that is seventy-two.",
    "Je voudrais un café et deux croissants, s'il vous plaît. Merci beaucoup !",
    "1. Preheat the oven.\n2. Mix the flour with the butter.\n3. Bake for twenty minutes.\n",
    "The defendant shall pay the costs of the proceedings within thirty days of this judgment.",
    "Patient reports mild headache and fever for two days; no known allergies; temperature 38.2 C.",
    "ok lol see you at 8 then!! bring snacks :)",
)
