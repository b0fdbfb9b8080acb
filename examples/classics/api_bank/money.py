"""A bank, stocks, hotels."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from records import Base, Date, Refused, Token, api, day_in


@api("OpenBankAccount")
def open_bank_account(base: Base, account: Annotated[str, Field(description="the identifier of the account")],
                      password: Annotated[str, Field(description="its password")],
                      name: Annotated[str, Field(description="the name of its holder")]) -> str:
    """Open a bank account. An identifier that is taken fails."""
    accounts = base.table("Bank")
    if any(one.get("account") == account for one in accounts.values()):
        return "failed"
    accounts[f"account {account}"] = {"account": account, "password": password, "name": name, "balance": 0}
    return "success"


@api("QueryBalance")
def query_balance(base: Base, token: Token) -> float:
    """Query the bank balance of a user."""
    try:
        user = base.user(token)
    except Refused:
        raise Refused("The token is incorrect.") from None
    if user not in base.table("Bank"):
        raise Refused("The user does not have an account.")
    return base.table("Bank")[user]["balance"]          # type: ignore[no-any-return]


@api("QueryStock")
def query_stock(base: Base, stock_code: Annotated[str, Field(description="the code of the stock")], date: Date) -> float:
    """Query the price of a stock on a day."""
    code, day, stocks = stock_code.strip().upper(), day_in(date), base.table("Stock")
    if not code:
        raise Refused("The stock code cannot be empty.")
    if code not in stocks:
        raise Refused("The stock code does not exist.")
    if day not in stocks[code]:
        raise Refused("The stock price of this date is not maintained.")
    return stocks[code][day]                            # type: ignore[no-any-return]


@api("BookHotel")
def book_hotel(base: Base, hotel_name: Annotated[str, Field(description="the name of the hotel")],
               check_in_time: Annotated[str, Field(description="the day of arrival, like 2023-03-18")],
               check_out_time: Annotated[str, Field(description="the day of departure, like 2023-03-20")],
               room_count: Annotated[int, Field(description="how many rooms")],
               adult_count: Annotated[int, Field(description="how many adults")],
               child_count: Annotated[int, Field(description="how many children")]) -> str:
    """Book rooms of a hotel. More than two adults need two rooms. Gives the ID of the booking."""
    arrival, departure, orders = day_in(check_in_time), day_in(check_out_time), base.table("Hotel")
    if adult_count > 2 and room_count == 1:
        raise Refused("The number of adults is greater than 2. Two rooms are ordered.")
    for order in orders.values():
        first, last = order["check_in_time"], order["check_out_time"]
        if order["hotel_name"] == hotel_name and (first <= arrival < last or first < departure <= last):
            raise Refused("The room is not available.")
    number = str(len(orders) + 1)
    orders[number] = {"hotel_name": hotel_name, "check_in_time": arrival, "check_out_time": departure, "room_count": room_count,
                      "adult_count": adult_count, "child_count": child_count}
    return number
