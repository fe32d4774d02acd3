from gym_of_reasoning import grade, make

__all__ = ["grade", "rows"]


def rows():
    return make("sudoku", size=5, min_empty=50, max_empty=54)


def solutions(board, limit=2):
    cell = next(((r, c) for r in range(9) for c in range(9) if not board[r][c]), None)
    if cell is None:
        return [[row[:] for row in board]]
    row, column = cell
    found = []
    for number in range(1, 10):
        box = [board[r][c] for r in range(row // 3 * 3, row // 3 * 3 + 3) for c in range(column // 3 * 3, column // 3 * 3 + 3)]
        if number in board[row] or number in box or number in [line[column] for line in board]:
            continue
        board[row][column] = number
        found += solutions(board, limit - len(found))
        board[row][column] = 0
        if len(found) >= limit:
            break
    return found


def shows(answer, row):
    return len(solutions([list(line) for line in row["metadata"]["puzzle"]])) > 1
