"""The web shop: search and filters, a basket, checkout with a review page, orders, returns, addresses, a wish list."""

import json
from collections.abc import Callable
from typing import Any

from sandlot.apps import PageResponse

from .records import Row
from .web import Site, Visit, days_after

TABLES = """
CREATE TABLE product (id INTEGER PRIMARY KEY, name TEXT, brand TEXT, category TEXT, cents INTEGER, rating REAL, stock INTEGER,
  days INTEGER, colour TEXT, size REAL, unit TEXT, about TEXT, sponsored INTEGER);
CREATE TABLE review (id INTEGER PRIMARY KEY, product INTEGER, author TEXT, stars INTEGER, text TEXT);
CREATE TABLE coupon (id INTEGER PRIMARY KEY, code TEXT, percent INTEGER, excluded TEXT, least INTEGER, until TEXT);
CREATE TABLE address (id INTEGER PRIMARY KEY, label TEXT, name TEXT, street TEXT, postcode TEXT, city TEXT, standard INTEGER);
CREATE TABLE basket (id INTEGER PRIMARY KEY, product INTEGER, quantity INTEGER);
CREATE TABLE checkout (id INTEGER PRIMARY KEY, address INTEGER, delivery TEXT, payment TEXT, insurance INTEGER, wrap INTEGER,
  message TEXT, coupon TEXT);
CREATE TABLE purchase (id INTEGER PRIMARY KEY, number TEXT, placed TEXT, status TEXT, arrived TEXT, address INTEGER,
  delivery TEXT, payment TEXT, insurance INTEGER, wrap INTEGER, message TEXT, coupon TEXT, total INTEGER);
CREATE TABLE item (id INTEGER PRIMARY KEY, purchase INTEGER, product INTEGER, quantity INTEGER, cents INTEGER);
CREATE TABLE giveback (id INTEGER PRIMARY KEY, purchase INTEGER, product INTEGER, quantity INTEGER, reason TEXT, refund TEXT);
CREATE TABLE wish (id INTEGER PRIMARY KEY, product INTEGER);
CREATE TABLE inquiry (id INTEGER PRIMARY KEY, topic TEXT, purchase TEXT, text TEXT);
"""
CATEGORIES = ("Kettles", "Coffee makers", "Blenders", "Headphones", "Keyboards", "Backpacks", "Desk lamps", "Water bottles")
DELIVERIES = {
    "standard": ("Standard, 3 to 5 days", 490),
    "express": ("Express, next working day", 1290),
    "pickup": ("Pick-up point", 290),
}
PAYMENTS = {"card": "Card on file", "invoice": "Invoice by bank transfer"}
REASONS = ("Damaged on arrival", "Wrong item", "Does not fit", "No longer needed")
REFUNDS = ("Original payment", "Store credit")
TOPICS = ("Refund missing", "Delivery", "Invoice", "Product question")
FREE_FROM, INSURANCE, WRAP, PER_PAGE, RETURN_DAYS = 7500, 349, 399, 8, 30

site = Site("shop", "Alder & Finch", TABLES)
site.everywhere = lambda visit: {
    "categories": CATEGORIES,
    "basket_count": sum(row["quantity"] for row in visit.records.rows("basket")),
}


def bill(items: list[tuple[Row, int]], choice: Row, coupon: Row | None, today: str) -> dict[str, int]:
    """What an order costs, in cents: goods, discount, delivery, extras, total."""
    goods = sum(product["cents"] * quantity for product, quantity in items)
    counted = sum(
        product["cents"] * quantity for product, quantity in items if not coupon or product["category"] != coupon["excluded"]
    )
    valid = coupon is not None and counted >= coupon["least"] and today <= coupon["until"]
    discount = counted * coupon["percent"] // 100 if coupon and valid else 0
    free = choice["delivery"] == "standard" and goods - discount >= FREE_FROM
    delivery = 0 if free else DELIVERIES[choice["delivery"]][1]
    extras = INSURANCE * choice["insurance"] + WRAP * choice["wrap"]
    return {
        "goods": goods,
        "discount": discount,
        "delivery": delivery,
        "extras": extras,
        "total": goods - discount + delivery + extras,
    }


def basket_items(visit: Visit) -> list[tuple[Row, int]]:
    return [(visit.records.row("product", row["product"]) or {}, row["quantity"]) for row in visit.records.rows("basket")]


def found_products(visit: Visit) -> list[Row]:
    """The products that the query asks for, in its order; sponsored ones first unless it names another."""
    query = visit.query
    words = query.get("q", "").lower().split()
    least, most = query.get("rating", ""), query.get("most", "")
    found = [
        product
        for product in visit.records.rows("product")
        if all(word in f"{product['name']} {product['category']} {product['colour']}".lower() for word in words)
        and query.get("category", "") in {"", product["category"]}
        and query.get("brand", "") in {"", product["brand"]}
        and (not least.replace(".", "", 1).isdecimal() or product["rating"] >= float(least))
        and (not most.isdecimal() or product["cents"] <= int(most) * 100)
        and (query.get("stock") != "yes" or product["stock"] > 0)
    ]
    orders: dict[str, Callable[[Row], Any]] = {
        "price": lambda product: product["cents"],
        "-price": lambda product: -product["cents"],
        "rating": lambda product: -product["rating"],
    }
    orders[""] = lambda product: (-product["sponsored"], product["name"])
    return sorted(found, key=orders.get(query.get("sort", ""), orders[""]))


@site.page("/", private=False)
def home(visit: Visit) -> PageResponse:
    shown = [product for product in visit.records.rows("product") if product["sponsored"]][:4]
    return visit.page("home.html", shown=shown)


@site.page("/search", private=False)
def search(visit: Visit) -> PageResponse:
    found = found_products(visit)
    last = max(1, -(-len(found) // PER_PAGE))
    wanted = visit.query.get("page", "1")
    number = min(last, max(1, int(wanted))) if wanted.isdecimal() and len(wanted) < 4 else 1
    brands = sorted({product["brand"] for product in visit.records.rows("product")})
    shown = found[(number - 1) * PER_PAGE : number * PER_PAGE]
    return visit.page("search.html", shown=shown, count=len(found), number=number, last=last, brands=brands)


@site.page("/suggest", private=False)
def suggest(visit: Visit) -> PageResponse:
    words = visit.query.get("q", "").lower()
    names = sorted({product["name"] for product in visit.records.rows("product") if words and words in product["name"].lower()})
    return PageResponse(body=json.dumps(names[:6]).encode(), headers={"Content-Type": "application/json"})


@site.page("/product/{number}", private=False)
def product_page(visit: Visit, number: str) -> PageResponse:
    product = visit.records.row("product", number)
    if product is None:
        return visit.problem("Product not found", "This product does not exist or is no longer sold.")
    wished = visit.records.first("wish", product=product["id"])
    return visit.page("product.html", product=product, reviews=visit.records.rows("review", product=product["id"]), wished=wished)


@site.page("/basket/add", "POST", private=False)
def put_in_basket(visit: Visit) -> PageResponse:
    product = visit.records.row("product", visit.text("product"))
    quantity = visit.text("quantity")
    if product is None or not quantity.isdecimal() or not 1 <= int(quantity[:3]) <= 20:
        return visit.problem("Not added", "Choose a quantity from 1 to 20.", status=422)
    held = visit.records.first("basket", product=product["id"])
    wanted = int(quantity) + (held["quantity"] if held else 0)
    if wanted > product["stock"]:
        text = (
            f"Only {product['stock']} of {product['name']} are in stock."
            if product["stock"]
            else f"{product['name']} is out of stock."
        )
        return visit.problem("Not added", text, status=422, back=f"/product/{product['id']}")
    if held:
        visit.records.change("basket", held["id"], quantity=wanted)
    else:
        visit.records.add("basket", product=product["id"], quantity=wanted)
    return PageResponse.redirect("/basket")


@site.page("/basket", private=False)
def show_basket(visit: Visit) -> PageResponse:
    return visit.page(
        "basket.html", rows=[(row, visit.records.row("product", row["product"])) for row in visit.records.rows("basket")]
    )


@site.page("/basket/{number}", "POST", private=False)
def change_basket(visit: Visit, number: str) -> PageResponse:
    row = visit.records.row("basket", number)
    quantity = visit.text("quantity")
    if row is not None and quantity.isdecimal() and int(quantity[:3]) <= 20:
        product = visit.records.row("product", row["product"]) or {}
        if int(quantity) > product["stock"]:
            return visit.problem("Not changed", f"Only {product['stock']} are in stock.", status=422, back="/basket")
        visit.records.change("basket", row["id"], quantity=int(quantity)) if int(quantity) else visit.records.remove(
            "basket", row["id"]
        )
    return PageResponse.redirect("/basket")


@site.page("/checkout")
def checkout(visit: Visit) -> PageResponse:
    if not visit.records.rows("basket"):
        return visit.problem("Your basket is empty", "Put something into the basket first.")
    return visit.page("checkout.html", **_choices(visit))


def _choices(visit: Visit) -> dict[str, Any]:
    return {"addresses": visit.records.rows("address"), "deliveries": DELIVERIES, "payments": PAYMENTS}


@site.page("/checkout", "POST")
def choose(visit: Visit) -> PageResponse:
    address = visit.records.row("address", visit.text("address"))
    delivery, code = visit.text("delivery"), visit.text("coupon", 20).upper()
    if address is None:
        visit.errors["address"] = "Choose a delivery address."
    if delivery not in DELIVERIES:
        visit.errors["delivery"] = "Choose how it is delivered."
    coupon = visit.records.first("coupon", code=code) if code else None
    if code and coupon is None:
        visit.errors["coupon"] = f"The code {code} is not known."
    elif coupon and coupon["until"] < visit.records.today:
        visit.errors["coupon"] = f"The code {code} is no longer valid."
    if visit.text("payment") not in PAYMENTS:
        visit.errors["payment"] = "Choose how you pay."
    if visit.errors or address is None:
        return visit.page("checkout.html", status=422, **_choices(visit))
    visit.records.clear("checkout")
    flags = {name: int(visit.form.get(name) == "yes") for name in ("insurance", "wrap")}
    visit.records.add(
        "checkout",
        address=address["id"],
        delivery=delivery,
        payment=visit.text("payment"),
        message=visit.text("message"),
        coupon=code,
        **flags,
    )
    return PageResponse.redirect("/checkout/review")


def _review(visit: Visit) -> dict[str, Any] | None:
    choice = visit.records.first("checkout")
    items = basket_items(visit)
    if choice is None or not items:
        return None
    coupon = visit.records.first("coupon", code=choice["coupon"]) if choice["coupon"] else None
    address = visit.records.row("address", choice["address"])
    return {
        "choice": choice,
        "items": items,
        "coupon": coupon,
        "address": address,
        "bill": bill(items, choice, coupon, visit.records.today),
    }


@site.page("/checkout/review")
def review(visit: Visit) -> PageResponse:
    shown = _review(visit)
    if shown is None:
        return PageResponse.redirect("/basket")
    return visit.page("review.html", **shown, deliveries=DELIVERIES, payments=PAYMENTS)


@site.page("/checkout/place", "POST")
def place(visit: Visit) -> PageResponse:
    shown = _review(visit)
    if shown is None:
        return PageResponse.redirect("/basket")
    number = f"AF-{max(int(row['number'][3:]) for row in visit.records.rows('purchase')) + 83}"
    choice = {name: value for name, value in shown["choice"].items() if name != "id"}
    status = "awaiting payment" if choice["payment"] == "invoice" else "processing"
    order = visit.records.add(
        "purchase", number=number, placed=visit.records.today, status=status, arrived="", total=shown["bill"]["total"], **choice
    )
    for product, quantity in shown["items"]:
        visit.records.add("item", purchase=order, product=product["id"], quantity=quantity, cents=product["cents"])
    visit.records.clear("basket")
    visit.records.clear("checkout")
    return PageResponse.redirect(f"/orders/{number}?new=1")


@site.page("/orders")
def orders(visit: Visit) -> PageResponse:
    return visit.page("orders.html", orders=list(reversed(visit.records.rows("purchase"))))


@site.page("/orders/{number}")
def order_page(visit: Visit, number: str) -> PageResponse:
    order = visit.records.first("purchase", number=number)
    if order is None:
        return visit.problem("Order not found", "There is no such order in your account.", back="/orders")
    return visit.page("order.html", order=order, **_order(visit, order))


def _order(visit: Visit, order: Row) -> dict[str, Any]:
    items = [(row, visit.records.row("product", row["product"])) for row in visit.records.rows("item", purchase=order["id"])]
    back = {row["product"]: row for row in visit.records.rows("giveback", purchase=order["id"])}
    open_until = days_after(order["arrived"], RETURN_DAYS) if order["arrived"] else ""
    returnable = order["status"] == "delivered" and visit.records.today <= open_until
    return {
        "items": items,
        "back": back,
        "address": visit.records.row("address", order["address"]),
        "addresses": visit.records.rows("address"),
        "returnable": returnable,
        "open_until": open_until,
        "deliveries": DELIVERIES,
        "payments": PAYMENTS,
    }


@site.page("/orders/{number}/cancel", "POST")
def cancel(visit: Visit, number: str) -> PageResponse:
    order = visit.records.first("purchase", number=number)
    if order is None or order["status"] not in {"processing", "awaiting payment"}:
        return visit.problem(
            "Not cancelled", "Only an order that has not been shipped can be cancelled.", status=409, back="/orders"
        )
    visit.records.change("purchase", order["id"], status="cancelled")
    return PageResponse.redirect(f"/orders/{number}")


@site.page("/orders/{number}/address", "POST")
def redirect_order(visit: Visit, number: str) -> PageResponse:
    order, address = visit.records.first("purchase", number=number), visit.records.row("address", visit.text("address"))
    if order is None or address is None or order["status"] not in {"processing", "awaiting payment"}:
        return visit.problem(
            "Not changed", "Only an order that has not been shipped can be sent elsewhere.", status=409, back="/orders"
        )
    visit.records.change("purchase", order["id"], address=address["id"])
    return PageResponse.redirect(f"/orders/{number}")


@site.page("/orders/{number}/return/{product}")
def return_form(visit: Visit, number: str, product: str) -> PageResponse:
    order, item = visit.records.first("purchase", number=number), visit.records.row("product", product)
    if order is None or item is None or not _order(visit, order)["returnable"]:
        return visit.problem(
            "No return possible", "Items can be returned within 30 days of delivery.", status=409, back="/orders"
        )
    row = visit.records.first("item", purchase=order["id"], product=item["id"])
    return visit.page("return.html", order=order, product=item, row=row, reasons=REASONS, refunds=REFUNDS)


@site.page("/orders/{number}/return/{product}", "POST")
def give_back(visit: Visit, number: str, product: str) -> PageResponse:
    order, item = visit.records.first("purchase", number=number), visit.records.row("product", product)
    row = visit.records.first("item", purchase=order["id"], product=item["id"]) if order and item else None
    if order is None or item is None or row is None or not _order(visit, order)["returnable"]:
        return visit.problem(
            "No return possible", "Items can be returned within 30 days of delivery.", status=409, back="/orders"
        )
    quantity = visit.text("quantity")
    if not quantity.isdecimal() or not 1 <= int(quantity[:3]) <= row["quantity"]:
        visit.errors["quantity"] = f"The quantity is a number from 1 to {row['quantity']}."
    if visit.text("reason") not in REASONS:
        visit.errors["reason"] = "Choose a reason."
    if visit.text("refund") not in REFUNDS:
        visit.errors["refund"] = "Choose how you want your money back."
    if visit.records.first("giveback", purchase=order["id"], product=item["id"]):
        visit.errors["quantity"] = "A return for this item has already been registered."
    if visit.errors:
        return visit.page("return.html", status=422, order=order, product=item, row=row, reasons=REASONS, refunds=REFUNDS)
    visit.records.add(
        "giveback",
        purchase=order["id"],
        product=item["id"],
        quantity=int(quantity),
        reason=visit.text("reason"),
        refund=visit.text("refund"),
    )
    return PageResponse.redirect(f"/orders/{number}")


@site.page("/addresses")
def addresses(visit: Visit) -> PageResponse:
    return visit.page("addresses.html", addresses=visit.records.rows("address"))


@site.page("/addresses", "POST")
def add_address(visit: Visit) -> PageResponse:
    visit.require(
        label="Give the address a label.", name="Enter the name.", street="Enter street and number.", city="Enter the city."
    )
    if not (visit.text("postcode").isdecimal() and len(visit.text("postcode")) == 5):
        visit.errors["postcode"] = "The postcode has five digits."
    if visit.errors:
        return visit.page("addresses.html", status=422, addresses=visit.records.rows("address"))
    values = {name: visit.text(name) for name in ("label", "name", "street", "postcode", "city")}
    number = visit.records.add("address", **values, standard=0)
    if visit.form.get("standard") == "yes":
        _make_standard(visit, number)
    return PageResponse.redirect("/addresses")


def _make_standard(visit: Visit, number: int) -> None:
    for row in visit.records.rows("address", standard=1):
        visit.records.change("address", row["id"], standard=0)
    visit.records.change("address", number, standard=1)


@site.page("/addresses/{number}/standard", "POST")
def make_standard(visit: Visit, number: str) -> PageResponse:
    if visit.records.row("address", number):
        _make_standard(visit, int(number))
    return PageResponse.redirect("/addresses")


@site.page("/addresses/{number}/delete", "POST")
def delete_address(visit: Visit, number: str) -> PageResponse:
    row = visit.records.row("address", number)
    if row and not row["standard"]:
        visit.records.remove("address", row["id"])
    return PageResponse.redirect("/addresses")


@site.page("/wishes")
def wishes(visit: Visit) -> PageResponse:
    return visit.page(
        "wishes.html", rows=[(row, visit.records.row("product", row["product"])) for row in visit.records.rows("wish")]
    )


@site.page("/wishes/{product}", "POST")
def wish(visit: Visit, product: str) -> PageResponse:
    found = visit.records.row("product", product)
    if found and not visit.records.first("wish", product=found["id"]):
        visit.records.add("wish", product=found["id"])
    return PageResponse.redirect("/wishes")


@site.page("/wishes/{number}/delete", "POST")
def unwish(visit: Visit, number: str) -> PageResponse:
    if visit.records.row("wish", number):
        visit.records.remove("wish", int(number))
    return PageResponse.redirect("/wishes")


@site.page("/contact")
def contact(visit: Visit) -> PageResponse:
    return visit.page("contact.html", topics=TOPICS, sent=visit.query.get("sent"))


@site.page("/contact", "POST")
def send(visit: Visit) -> PageResponse:
    visit.require(topic="Choose a topic.", text="Write your message.")
    number = visit.text("order").upper()
    if number and visit.records.first("purchase", number=number) is None:
        visit.errors["order"] = f"There is no order {number[:20]} in your account."
    if visit.text("topic") not in TOPICS:
        visit.errors["topic"] = "Choose a topic."
    if visit.errors:
        return visit.page("contact.html", status=422, topics=TOPICS, sent="")
    visit.records.add("inquiry", topic=visit.text("topic"), purchase=number, text=visit.text("text", 1000))
    return PageResponse.redirect("/contact?sent=1")
