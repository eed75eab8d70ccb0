"""Charts by Vega-Lite through Altair: what they share, and static pictures of them."""
