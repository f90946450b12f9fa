"""What can be bought for a statement: a file for each strategy.

A strategy turns what is asked, and what is known of it, into `Offer`s, which are data. It depends
on public facts alone, charges nothing, and makes the same offers in every process. `decide` in
`gate/deciding/best_offer.py` lists the strategies, and takes the best offer; `instead.py` lists
those that buy other rows for a whole statement.
"""
