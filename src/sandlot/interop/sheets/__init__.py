"""Tasks and rubrics that domain experts write in a spreadsheet."""
