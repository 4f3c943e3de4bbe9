"""The text of documents that anybody may have sent; a library, see README.md."""
