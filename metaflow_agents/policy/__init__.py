"""What roles may do: rules, presets, and the decision about an action. Pure: no file, no network, no clock."""
