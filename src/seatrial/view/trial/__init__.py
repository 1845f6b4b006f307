"""The parts of a trial's page: each module makes the values of one section, and templates show them."""
