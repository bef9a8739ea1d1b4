"""Names that must not be in a recording, and the same decisions all the same.

pseudonyms         a keyed hash for each name, equal for equal names; numbers and what is parsed stay readable
redacted_objects   from objects to the same objects with pseudonyms, by the types of their fields
redacting          the same for entries and snapshots; what a recorder without redaction uses instead

A field is hashed unless it is listed as one that stays, so a field that is added to a type is hashed until somebody
thinks about it. UIDs stay: they say nothing, and ties between pods are broken by them. Ties between nodes are broken by
their names, so a scheduler that records with redaction breaks them by the pseudonyms, as the replay will.
"""
