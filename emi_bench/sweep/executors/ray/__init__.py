"""All that knows Ray. Imports nothing: its workers put off the collector before they import (see `trial`)."""
