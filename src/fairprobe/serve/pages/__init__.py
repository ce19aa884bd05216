"""One file a page. A page reads the address, asks the other rooms, and fills a template."""
