"""The chaos run: tasks under a seeded adversary, and a checker that knows nothing of taskkit's code.

``app`` runs in the workers and writes the ledger, ``adversary`` plans the faults and ``strikes`` carries them out,
``load`` enqueues, ``crew`` keeps the processes up, ``audit`` records each transition in the database, ``evidence`` is
what all of them leave behind, and ``checker`` judges that alone.
"""
