"""Pages of the public net: fetched from the address that was checked, and from no private one."""
