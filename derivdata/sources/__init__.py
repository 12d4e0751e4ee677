"""Who answers: venues asked directly, an archive, a synthetic market, and the service in front of them."""
