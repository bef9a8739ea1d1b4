"""Pure facts about objects that several controllers ask for."""
