"""The paper's study and the simulations: data, scripts, and what they write into pages."""
