"""The plugin compaction: a conversation that outgrows its model goes on with a summary of its older part."""
