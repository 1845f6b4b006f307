"""Between an agent and its model: every call is passed on, recorded and limited."""
