"""Accounts and their tokens."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

from pydantic import Field
from records import Base, Refused, Token, api

_CODE = 970420
Username = Annotated[str, Field(description="the name of the user")]
Password = Annotated[str, Field(description="the password of the user")]
Email = Annotated[str, Field(description="the e-mail address of the user")]


@api("GetUserToken")
def get_user_token(base: Base, username: Username, password: Password) -> dict[str, str]:
    """Get the token of a user, which other APIs ask for, by username and password."""
    account = base.table("Account").get(username)
    if account is None:
        raise Refused("The username does not exist.")
    if account["password"] != password:
        raise Refused("The password is incorrect.")
    return {"token": account["token"]}


@api("CheckToken")
def check_token(base: Base, token: Token) -> dict[str, str]:
    """Check a user's token: tells whose it is."""
    return {"username": base.user(token)}


@api("RegisterUser")
def register_user(base: Base, username: Username, password: Password, email: Email) -> dict[str, str]:
    """Register a new user account. Gives the token of the user."""
    accounts = base.table("Account")
    if username in accounts:
        raise Refused("The username already exists.")
    token = hashlib.sha256(f"{username}\0{email}".encode()).hexdigest()[:18]
    accounts[username] = {"password": password, "token": token, "email": email}
    return {"token": token}


@api("DeleteAccount")
def delete_account(base: Base, token: Token) -> dict[str, str]:
    """Delete the account of a user."""
    del base.table("Account")[base.user(token)]
    return {"status": "success"}


@api("ModifyPassword")
def modify_password(base: Base, token: Token, old_password: Password, new_password: Password) -> dict[str, str]:
    """Change the password of an account, by the old one."""
    account = base.table("Account")[base.user(token)]
    if account["password"] != old_password:
        raise Refused("The old password is incorrect.")
    account["password"] = new_password
    return {"status": "success"}


@api("ForgotPassword")
def forgot_password(
    base: Base,
    status: Annotated[Literal["Forgot Password", "Verification Code"], Field(description="which of the two calls it is")],
    username: Annotated[str | None, Field(description="of the first call: the name of the user")] = None,
    email: Annotated[str | None, Field(description="of the first call: the e-mail address of the user")] = None,
    verification_code: Annotated[int | None, Field(description="of the second call: the code that the first one gave")] = None,
    new_password: Annotated[str | None, Field(description="of the second call: the new password")] = None,
) -> Any:
    """Reset a forgotten password, in two calls: the first sends a verification code, the second sets a new password by it."""
    accounts = base.table("Account")
    asking = [name for name, account in accounts.items() if "asked_for_code" in account]
    if status == "Forgot Password":
        if username is None or email is None:
            raise Refused("The username and email are required for the first call.")
        if username not in accounts:
            raise Refused("The username does not exist.")
        if accounts[username]["email"] != email:
            raise Refused("The email is incorrect.")
        for name in asking:
            del accounts[name]["asked_for_code"]
        accounts[username]["asked_for_code"] = True
        return _CODE
    if not asking:
        raise Refused("You need to call the API with status 'Forgot Password' at first.")
    if new_password is None or verification_code is None:
        raise Refused("The new password and verification code are required for the second call.")
    if verification_code != _CODE:
        raise Refused("The verification code is incorrect.")
    accounts[asking[0]]["password"] = new_password
    return "success"
