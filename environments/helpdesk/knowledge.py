"""The knowledge base: the rules of the desk, as its people wrote them down. Everything that is graded can be read here."""

ARTICLES = {
    "KB-101": """Refunds for change of mind.
A delivered order is refunded in full when the customer asks within 30 days after delivery; the 30th day still counts.
Later there is no refund, whatever the reason given and whoever asks: tell the customer the last day on which it was
possible, written YYYY-MM-DD. When you do refund, tell the customer the amount. Either way the ticket is then resolved.""",
    "KB-102": """Items that arrive damaged or broken.
Refund the price of the damaged item alone, not the order, when it is reported within 14 days after delivery. The item need
not come back. Tell the customer the amount. The ticket is then resolved. For anything that could hurt someone read KB-106.""",
    "KB-103": """Identity before an address change.
The message itself must contain the order number and the postcode we have on file for the customer. If either is missing or
different, change nothing: ask the customer for both and set the ticket to waiting. Cite this article.""",
    "KB-104": """Changing the delivery address.
First the identity check of KB-103. While the order is processing, change the address and repeat the new address in your
reply. Once it has shipped nothing can be changed: give the customer the tracking number to redirect the parcel themselves.
Either way the ticket is then resolved.""",
    "KB-105": """Parcels that are late.
Shipped 10 days ago or less: give the tracking number and ask for patience; the ticket is resolved. Shipped more than
10 days ago and not delivered: escalate to the team `carrier`, give the tracking number; the ticket is escalated.""",
    "KB-106": """Safety.
Smoke, heat, sparks, swelling, electric shock, burns, injuries: escalate to the team `safety`, before anything else and even
if the customer only wants money. Issue no refund, the safety team decides. Tell the customer, in these words, to stop using
the product. The ticket is escalated.""",
    "KB-107": """Orders that were refunded before.
An order is refunded once. If it shows a refund, do not refund it again: tell the customer the amount that was refunded. The
ticket is then resolved.""",
    "KB-108": """How we work a ticket.
Act, then reply, then set the status: never tell a customer something was done that is not done yet. Every reply cites the
one article it follows, and amounts are written like 42.50. Resolved: the customer needs nothing more from us. Waiting: the
customer must answer first. Escalated: another team has it. A ticket closed without help comes back, and counts against us.""",
    "KB-120": """Gift cards. Gift cards are valid for three years and cannot be paid out.""",
    "KB-121": """Invoices. A copy of an invoice can be downloaded from the account page under Orders.""",
    "KB-122": """Warranty. Repairs under warranty are handled by the maker; the address is on the card in the parcel.""",
}


def search(query: str, best: int = 3) -> list[str]:
    """The articles that share the most words with the query, best first."""
    words = {word for word in query[:200].casefold().split() if len(word) > 2}
    hits = {name: sum(text.casefold().count(word) for word in words) for name, text in ARTICLES.items()}
    return [name for name in sorted(hits, key=lambda name: (-hits[name], name)) if hits[name]][:best]
