"""The trainings behind the material: one module per trainer."""
