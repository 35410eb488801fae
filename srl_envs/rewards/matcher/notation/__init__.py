"""From written mathematics to trees."""
