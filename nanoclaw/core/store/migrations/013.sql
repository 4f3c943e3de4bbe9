-- Questions to the owner are a plugin's.
ALTER TABLE asks RENAME TO approvals_asks;
