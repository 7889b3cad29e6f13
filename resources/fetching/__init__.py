"""All outgoing HTTP: the frontier's domain queues, the guarded client, politeness."""
