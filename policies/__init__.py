"""Floor 1: what should be done and why, as pure functions of a snapshot and the policies.

`loading.load_policy` reads a policy, `checking.check_policies` finds contradictions,
`placement.allowed_offers` answers a request before it is queued, `decide.decide` makes the plan,
`explain` puts it in words and `codec` stores it. No clock, randomness, file, network or thread.
"""
