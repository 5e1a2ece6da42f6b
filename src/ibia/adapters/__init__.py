"""Other packages' models and vocabularies. Nothing here is imported before somebody asks for it."""
