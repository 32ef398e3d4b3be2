"""The server: LibreTranslate's API, the web page and what the page asks for."""
