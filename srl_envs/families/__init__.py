"""The built-in environments, one folder per family; registering imports none of them."""

from srl_envs.registry import register

_BOARD = "srl_envs.families.board"
_BARGAINING = "srl_envs.families.bargaining"
_DILEMMAS = "srl_envs.families.dilemmas"
_REASONING = "srl_envs.families.reasoning"
_CODING = "srl_envs.families.coding"
_CARDS = "srl_envs.families.cards"
_TEAMWORK = "srl_envs.families.teamwork"
_WORDS = "srl_envs.families.words"
_JOURNEYS = "srl_envs.families.journeys"
_TABLES = "srl_envs.families.tables"
_WORKFLOW = "srl_envs.families.workflow"
_NUMERIC = "srl_envs.wrappers.numeric"


def _bots(module: str, *names: str) -> dict[str, str]:
    """Entry points of a module's bots, of which each function is called by its bot's name."""
    return {name: f"{module}:{name}_bot" for name in names}


register(
    id="chess-v0",
    entry_point=f"{_BOARD}.chess:ChessGame",
    mode="competitive",
    summary="Chess from level positions, moves in SAN or UCI; material counts at the end.",
    held_out=True,
    extra="open-spiel",
    bots=_bots(f"{_BOARD}.chess_bots", "random", "middle", "strong", "held_out"),
    options={
        "plies": "moves of both sides together, 10 to 160 (40)",
        "opening": "random moves before a game begins, 4 to 12 (6)",
        "moves": "three (three are offered), listed or unlisted (listed)",
    },
)

register(
    id="connect_four-v0",
    entry_point=f"{_BOARD}.connect_four:ConnectFour",
    mode="competitive",
    summary="Drop pieces into columns; the first line that is long enough wins.",
    bots=_bots(f"{_BOARD}.connect_four_bots", "random", "middle", "strong", "held_out"),
    options={
        "rows": "height of the board, 4 to 9 (6)",
        "cols": "width of the board, 4 to 9 (7)",
        "k": "pieces in a line that win, 3 to 5 (4)",
        "players": "2, or 4 on two sides of two (2)",
    },
    numeric=f"{_NUMERIC}.board:ConnectFourFeatures",
)

register(
    id="math_duel-v0",
    entry_point=f"{_REASONING}.math_duel:MathDuel",
    mode="competitive",
    summary="Answer exact problems at the same moment and stake points on being right.",
    held_out=True,
    bots=_bots(f"{_REASONING}.math_duel_bots", "random", "weak", "middle", "strong", "held_out"),
    options={
        "problems": "problems per episode, 1 to 10 (5)",
        "players": "2, or 1 to answer alone, without stakes, paid by the share of right answers (2)",
        "difficulty": "1 (single digits) to 5 (3)",
        "families": "kinds of problem to draw from (all)",
        "tasks": "rows of gsm8k:PATH or math:PATH instead of generated problems",
    },
)

register(
    id="code_duel-v0",
    entry_point=f"{_CODING}.code_duel:CodeDuel",
    mode="competitive",
    summary="Write a program, then find inputs that break the other's.",
    held_out=True,
    runs_programs=True,
    bots=_bots(f"{_CODING}.code_duel_bots", "random", "empty", "middle", "strong", "held_out"),
    options={
        "players": "2, or 1 to write alone, without attacks, paid by the share of right answers (2)",
        "difficulty": "1 to 5 (2)",
        "families": "kinds of problem to draw from (all)",
        "hidden_inputs": "hidden test inputs per problem (20)",
        "attack_rounds": "0 or 1 rounds of attacking inputs (1; with tasks or one player always 0)",
        "tasks": "rows of humaneval:PATH or mbpp:PATH instead of generated tasks",
    },
)

register(
    id="werewolf-v0",
    entry_point=f"{_TABLES}.werewolf:Werewolf",
    mode="mixed",
    seats=7,
    summary="Find the werewolves by talk and votes before they have killed the village.",
    held_out=True,
    strangers=True,
    bots=_bots(f"{_TABLES}.werewolf_bots", "random", "silent", "middle", "strong", "held_out"),
    options={
        "players": "5 to 10; one werewolf below 7, three of 10, else two (7)",
        "days": "after which the werewolves win, 2 to 5 (4)",
        "talks": "rounds of talk each day, 0 to 2 (1)",
        "message_chars": "longest message, 20 to 160 (120)",
    },
)

register(
    id="treaties-v0",
    entry_point=f"{_TABLES}.treaties:Treaties",
    mode="mixed",
    seats=7,
    summary="Win supply centres by secret orders, with neighbours who may break their word.",
    held_out=True,
    strangers=True,
    bots=_bots(f"{_TABLES}.treaties_bots", "random", "holder", "middle", "strong", "held_out"),
    options={
        "players": "3 to 7 (7)",
        "provinces": "per player, 3 to 5, beside the hub in the middle (4)",
        "units": "that a player starts with, 1 or 2 (2)",
        "rounds": "of talk and orders, 2 to 10 (6)",
        "talks": "messages of each player in a round, 0 to 2 (1)",
        "support": "whether units may support others (true)",
        "message_chars": "longest message, 20 to 160 (120)",
    },
)

register(
    id="word_chain-v0",
    entry_point=f"{_WORDS}.word_chain:WordChain",
    mode="competitive",
    summary="Say words that begin as the last one ended; who has none left loses.",
    bots=_bots(
        f"{_WORDS}.word_chain_bots", "random", "small_vocabulary", "middle", "strong", "held_out"
    ),
    options={
        "link": "letters that two neighbours share, 1 to 3 (2)",
        "letters": "least letters of the first words, 4 to 8 (4)",
        "growth": "words after which the least length grows by 1, 0 (never) to 20 (5)",
        "turns": "words after which the game is a draw, 10 to 100 (60)",
        "followers": "words that must be able to follow each word, 1 to 50 (5)",
    },
    numeric=f"{_NUMERIC}.words:WordChainFeatures",
    held_out=True,
)

register(
    id="iterated_dilemma-v0",
    entry_point=f"{_DILEMMAS}.iterated_dilemma:IteratedDilemma",
    mode="mixed",
    summary="Meet the same player again and again in one small table of points.",
    bots=_bots(
        f"{_DILEMMAS}.iterated_dilemma_bots",
        "random",
        "generous",
        "selfish",
        "middle",
        "grim",
        "win_stay",
        "strong",
        "held_out",
    ),
    options={
        "kinds": "tables to draw from (all)",
        "rounds": "of a fixed horizon, 1 to 20 (10)",
        "horizon": "fixed or geometric (fixed)",
        "talk": "whether a message may go with a move (true)",
    },
    numeric=f"{_NUMERIC}.dilemmas:DilemmaFeatures",
    held_out=True,
)

register(
    id="kuhn_poker-v0",
    entry_point=f"{_CARDS}.kuhn_poker:KuhnPoker",
    mode="competitive",
    summary="Bet on one hidden card over six hands; bluffing is allowed.",
    bots=_bots(f"{_CARDS}.kuhn_poker_bots", "random", "caller", "middle", "strong", "held_out"),
    options={
        "deck": "kuhn (three cards) or leduc (six cards, two betting rounds) (kuhn)",
        "hands": "hands per episode, 1 to 20 (6)",
    },
    numeric=f"{_NUMERIC}.cards:PokerFeatures",
)

register(
    id="nim-v0",
    entry_point=f"{_BOARD}.nim:Nim",
    mode="competitive",
    summary="Take objects from heaps; who takes the last one wins, or loses in misere play.",
    held_out=True,
    bots=_bots(f"{_BOARD}.nim_bots", "random", "greedy", "middle", "strong", "held_out"),
    options={
        "heaps": "number of heaps, 2 to 5 (drawn, 3 to 5)",
        "largest": "objects in the largest possible heap, 3 to 9 (9)",
        "misere": "true: who takes the last object loses (false)",
    },
    numeric=f"{_NUMERIC}.board:NimFeatures",
)

register(
    id="blotto-v0",
    entry_point=f"{_DILEMMAS}.blotto:Blotto",
    mode="competitive",
    summary="Spread soldiers over fields of different value, unseen by the other player.",
    bots=_bots(f"{_DILEMMAS}.blotto_bots", "random", "even", "middle", "strong", "held_out"),
    options={
        "soldiers": "of each seat in every round, 5 to 50 (20)",
        "fields": "3 to 7 (5)",
        "rounds": "1 to 5 (3)",
        "values": "of the fields, shuffled, each 1 to 9 (drawn)",
    },
    numeric=f"{_NUMERIC}.dilemmas:BlottoFeatures",
    held_out=True,
)

register(
    id="expedition-v0",
    entry_point=f"{_JOURNEYS}.expedition:Expedition",
    mode="cooperative",
    summary="Explore unknown land on little food, and bring the news of its sites home.",
    held_out=True,
    bots=_bots(f"{_JOURNEYS}.expedition_bots", "random", "middle", "strong", "held_out"),
    options={
        "players": "seats, 1 to 4 (2)",
        "level": "1 (two sites near the camp) to 5 (4)",
        "turns": "turns of all seats together, 10 to 300 (by level: 20, 60, 100, 150, 150)",
        "map": "kept, or view: only what is seen now is drawn (kept)",
        "reward": "sparse, or shaped: finds and reports are paid at once (sparse)",
    },
)

register(
    id="holdem-v0",
    entry_point=f"{_CARDS}.holdem:Holdem",
    mode="competitive",
    summary="No-limit hold'em for two, with duplicate deals; bluffing is allowed.",
    held_out=True,
    bots=_bots(f"{_CARDS}.holdem_bots", "random", "caller", "middle", "strong", "held_out"),
    options={
        "hands": "hands per episode, 1 to 12 (4)",
        "stack": "chips of each seat in every hand, 4 to 200; the big blind is 2 (40)",
    },
)

register(
    id="liars_dice-v0",
    entry_point=f"{_CARDS}.liars_dice:LiarsDice",
    mode="competitive",
    seats=3,
    summary="Bid on hidden dice, and call the others' bluff.",
    held_out=True,
    bots=_bots(f"{_CARDS}.liars_dice_bots", "random", "middle", "strong", "held_out"),
    options={
        "players": "seats, 2 to 5 (3)",
        "dice": "dice of each seat at the start, 1 to 5 (3)",
        "wild": "true: a 6 counts as every face (false)",
    },
    numeric=f"{_NUMERIC}.cards:LiarsDiceFeatures",
)

register(
    id="schema_relay-v0",
    entry_point=f"{_TEAMWORK}.schema_relay:SchemaRelay",
    mode="cooperative",
    seats=3,
    summary="Pass an order along: prose to JSON, to other JSON, to a strict report.",
    held_out=True,
    bots=_bots(f"{_TEAMWORK}.schema_relay_bots", "random", "middle", "strong", "held_out"),
    options={
        "fields": "fields of an order, 2 to 8 (5)",
        "difficulty": "1 (same names and forms in every step) to 3 (2)",
    },
)

register(
    id="public_goods-v0",
    entry_point=f"{_DILEMMAS}.public_goods:PublicGoods",
    mode="mixed",
    seats=4,
    summary="Give to a pot that feeds all four, or keep your own; later, cut the stingy.",
    bots=_bots(
        f"{_DILEMMAS}.public_goods_bots",
        "random",
        "free_rider",
        "middle",
        "punisher",
        "strong",
        "held_out",
    ),
    options={
        "rounds": "1 to 12 (8)",
        "cuts_from": "first round in which cuts are possible, 0 for never (5)",
    },
    numeric=f"{_NUMERIC}.dilemmas:PublicGoodsFeatures",
    held_out=True,
)

register(
    id="commons-v1",
    entry_point=f"{_DILEMMAS}.commons:Commons",
    mode="mixed",
    seats=4,
    summary="Harvest one stock that grows back, four together, and do not kill it.",
    bots=_bots(f"{_DILEMMAS}.commons_bots", "random", "middle", "strong", "held_out"),
    options={
        "rounds": "the most rounds, 5 to 30 (30)",
        "talk": "whether a message may go with a request (true)",
    },
    numeric=f"{_NUMERIC}.dilemmas:CommonsFeatures",
    held_out=True,
)

register(
    id="hanabi_mini-v0",
    entry_point=f"{_CARDS}.hanabi_mini:HanabiMini",
    mode="cooperative",
    summary="Play cards in order though each sees only the others' hands.",
    held_out=True,
    bots=_bots(f"{_CARDS}.hanabi_mini_bots", "random", "middle", "strong", "held_out"),
    options={
        "players": "seats, 2 to 4 (2)",
        "colours": "colours, 1 to 3 (3)",
        "hand": "cards of each seat, 2 to 5 (4)",
        "clues": "clue tokens, 1 to 8 (6)",
        "lives": "mistakes that end the game, 1 to 5 (3)",
    },
    numeric=f"{_NUMERIC}.cards:HanabiFeatures",
)

register(
    id="split_clues-v0",
    entry_point=f"{_TEAMWORK}.split_clues:SplitClues",
    mode="cooperative",
    seats=3,
    summary="Each holds some clues of one puzzle; talk, then all hand in the solution.",
    held_out=True,
    bots=_bots(f"{_TEAMWORK}.split_clues_bots", "random", "silent", "middle", "strong", "held_out"),
    options={
        "players": "seats, 2 to 4 (3)",
        "people": "people in the puzzle, 3 or 4 (3)",
        "attributes": "what each has, the house included, 2 or 3 (3)",
        "difficulty": "1 (who has what) to 3 (hints only) (2)",
        "message_chars": "longest message, 40 to 400 (70)",
    },
)

register(
    id="negotiation-v0",
    entry_point=f"{_BARGAINING}.negotiation:Negotiation",
    mode="mixed",
    summary="Share items whose worth to the other you do not know; talk is cheap.",
    bots=_bots(
        f"{_BARGAINING}.negotiation_bots",
        "random",
        "conceder",
        "tit_for_tat",
        "middle",
        "strong",
        "held_out",
    ),
    options={
        "turns": "2 to 8, of which the last can only accept or walk (8)",
        "talk": "whether a message may go with a move (true)",
    },
    numeric=f"{_NUMERIC}.bargaining:NegotiationFeatures",
    held_out=True,
)

register(
    id="codewords_duet-v0",
    entry_point=f"{_WORDS}.codewords_duet:CodewordsDuet",
    mode="cooperative",
    summary="Lead each other to hidden target words by one-word clues.",
    bots=_bots(f"{_WORDS}.codewords_duet_bots", "random", "middle", "strong", "held_out"),
    options={"turns": "clues in all, 3 to 15 (9)"},
    held_out=True,
)

register(
    id="sealed_auction-v1",
    entry_point=f"{_BARGAINING}.sealed_auction:SealedAuction",
    mode="mixed",
    seats=4,
    summary="Bid in secret for item after item; the rules of price and value vary.",
    bots=_bots(
        f"{_BARGAINING}.sealed_auction_bots", "random", "truthful", "middle", "strong", "held_out"
    ),
    options={
        "price": "what the winner pays: first, second or any (any)",
        "values": "private, shared or any (any)",
        "items": "2 to 10 (6)",
        "purse": "coins of each seat, 20 to 60 (30)",
    },
    numeric=f"{_NUMERIC}.bargaining:AuctionFeatures",
    held_out=True,
)

register(
    id="undercover-v0",
    entry_point=f"{_WORDS}.undercover:Undercover",
    mode="mixed",
    seats=5,
    summary="Hint at your word, and find the one whose word is another.",
    bots=_bots(f"{_WORDS}.undercover_bots", "random", "silent", "middle", "strong", "held_out"),
    options={"rounds": "rounds of hints, each with a vote: 1 to 3 (2)"},
    held_out=True,
    strangers=True,
)

register(
    id="test_and_code-v0",
    entry_point=f"{_CODING}.teams.test_and_code:CodeAndTests",
    mode="cooperative",
    summary="One writes tests, the other the program; both learn where the two disagree.",
    held_out=True,
    runs_programs=True,
    bots={
        "random": f"{_CODING}.teams.test_and_code_bots:random_bot",
        "middle": f"{_CODING}.teams.test_and_code_bots:middle_bot",
        "strong": f"{_CODING}.teams.test_and_code_bots:strong_bot",
        "held_out": f"{_CODING}.teams.test_and_code_bots:held_out_bot",
    },
    options={
        "players": "2, or 1 that tests and codes (2)",
        "rounds": "tests and programs, 1 to 3 (2)",
        "tests": "most tests in a suite, 1 to 6 (4)",
        "difficulty": "1 to 5 (2)",
        "families": "kinds of problem to draw from (all)",
        "hidden_inputs": "hidden test inputs per problem (20)",
        "reward": "sparse, or shaped: the same sum is paid reply by reply (sparse)",
    },
)

register(
    id="spec_golf-v0",
    entry_point=f"{_CODING}.spec_golf:SpecGolf",
    mode="competitive",
    summary="Solve a task with the smaller of two programs; a wrong one is worth nothing.",
    held_out=True,
    runs_programs=True,
    bots=_bots(f"{_CODING}.spec_golf_bots", "random", "middle", "strong", "held_out"),
    options={
        "rounds": "1 to 5, each with another task (3)",
        "difficulty": "1 to 5 (2)",
        "families": "kinds of problem to draw from (all)",
        "hidden_inputs": "hidden test inputs per problem (20)",
        "tasks": "rows of humaneval:PATH or mbpp:PATH instead of generated tasks",
    },
)

register(
    id="pair_programming-v0",
    entry_point=f"{_CODING}.pair_programming:PairProgramming",
    mode="cooperative",
    summary="One knows the task, the other writes the program; talk until it passes.",
    held_out=True,
    runs_programs=True,
    bots=_bots(f"{_CODING}.pair_programming_bots", "random", "middle", "strong", "held_out"),
    options={
        "exchanges": "messages and programs at most, 1 to 5 (3)",
        "message_chars": "longest message, 100 to 600 (120)",
        "difficulty": "1 to 5 (2)",
        "families": "kinds of problem to draw from (all)",
        "hidden_inputs": "hidden test inputs (20)",
        "tasks": "rows of humaneval:PATH or mbpp:PATH instead of generated tasks",
    },
)

register(
    id="plan_path-v0",
    entry_point=f"{_WORKFLOW}.plan_path:PlanPath",
    mode="cooperative",
    summary="One writes programs, the other walks over a grid by what they print.",
    held_out=True,
    runs_programs=True,
    bots=_bots(f"{_WORKFLOW}.plan_path_bots", "random", "middle", "strong", "held_out"),
    options={
        "players": "2, or 1 that writes programs and walks (2)",
        "size": "of the grid, 3 to 20 (10)",
        "blocked": "percent of the cells that are blocked, 0 to 40 (22)",
        "rounds": "programs and walks at most, 1 to 8 (3)",
        "reward": "sparse, or shaped: progress is paid, too (sparse)",
    },
)

register(
    id="sokoban-v0",
    entry_point=f"{_WORKFLOW}.sokoban:Sokoban",
    mode="cooperative",
    summary="One writes programs, the other pushes boxes onto goals by what they print.",
    held_out=True,
    runs_programs=True,
    bots=_bots(f"{_WORKFLOW}.sokoban_bots", "random", "middle", "strong", "held_out"),
    options={
        "players": "2, or 1 that writes programs and moves (2)",
        "size": "of the room with its outer walls, 5 to 9 (6)",
        "boxes": "1 to 3 (2)",
        "walls": "percent of the inner cells that are walls, 0 to 25 (12)",
        "rounds": "programs and walks at most, 1 to 8 (3)",
        "reward": "sparse, or shaped: progress is paid, too (sparse)",
    },
)

register(
    id="sudoku-v0",
    entry_point=f"{_WORKFLOW}.sudoku:Sudoku",
    mode="cooperative",
    summary="One writes programs, the other fills a grid by what they print.",
    held_out=True,
    runs_programs=True,
    bots=_bots(f"{_WORKFLOW}.sudoku_bots", "random", "middle", "strong", "held_out"),
    options={
        "players": "2, or 1 that writes programs and fills (2)",
        "size": "digits a side: 4, 6 or 9 (4)",
        "holes": "open cells, from 3 up to 11, 20 or 50 by size (10, 16 or 40)",
        "rounds": "programs and answers at most, 1 to 8 (3)",
        "reward": "sparse, or shaped: progress is paid, too (sparse)",
    },
)

register(
    id="research_room-v0",
    entry_point=f"{_WORKFLOW}.library.research_room:ResearchRoom",
    mode="cooperative",
    summary="Search, read and compute in documents by calls that cost, then hand in.",
    held_out=True,
    runs_programs=True,
    bots={
        "random": f"{_WORKFLOW}.library.research_room_bots:random_bot",
        "middle": f"{_WORKFLOW}.library.research_room_bots:middle_bot",
        "strong": f"{_WORKFLOW}.library.research_room_bots:strong_bot",
        "held_out": f"{_WORKFLOW}.library.research_room_bots:held_out_bot",
    },
    options={
        "players": "2, or 1 that searches and writes (2)",
        "level": "1 (one of three documents has the answer) to 5 (3)",
        "calls": "calls of an episode, 6 to 30 (by level: 6, 8, 12, 15, 20)",
        "reward": "sparse, or shaped: opening what is needed is paid, too (sparse)",
    },
)

register(
    id="solve_and_verify-v0",
    entry_point=f"{_REASONING}.solve_and_verify:SolveAndVerify",
    mode="cooperative",
    seats=3,
    summary="One answers exact problems, one judges the answer, one sends the final one.",
    held_out=True,
    bots=_bots(f"{_REASONING}.solve_and_verify_bots", "random", "middle", "strong", "held_out"),
    options={
        "players": "3, or 1 that takes all parts (3)",
        "problems": "problems per episode, 1 to 10 (3)",
        "difficulty": "1 (single digits) to 5 (3)",
        "families": "kinds of problem to draw from (all)",
        "tasks": "rows of gsm8k:PATH or math:PATH instead of generated problems",
        "note_chars": "longest working or note, 0 to 400 (200)",
        "reward": "sparse, or shaped: first answers and verdicts are paid, too (sparse)",
    },
)

register(
    id="puzzles-v0",
    entry_point=f"{_REASONING}.puzzles:Puzzles",
    mode="cooperative",
    seats=1,
    summary="Solve generated puzzles of reasoning-gym, paid by its own checkers.",
    held_out=True,
    extra="puzzles",
    bots=_bots(f"{_REASONING}.puzzles_bots", "random", "middle", "strong", "held_out"),
    options={
        "puzzles": "puzzles per episode, 1 to 10 (3)",
        "level": "1, with three answers to choose from, to 5 (3)",
        "kinds": "kinds of puzzle to draw from (all)",
    },
)
