"""How long a silent claim holds, and how long an absent place is waited for. Imports nothing: commands name them."""

TTL = 60.0  #: seconds without a heartbeat after which a claim is dead
PATIENCE = 300.0  #: seconds that a full disk or a place that is gone is waited for
