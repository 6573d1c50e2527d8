"""Call an API that allows two requests a second, as often as you like, without a 429.

pip install postdate-client
python rate_limited.py https://api.example.com/contacts
"""

import sys

from postdate import NewSchedule, Postdate

contacts = [{"name": f"Contact {number}"} for number in range(1, 9)]

with Postdate() as postdate:  # reads POSTDATE_URL and POSTDATE_API_KEY
    # The limits are the lane's: all schedules in it share them, whoever creates them, and whichever
    # worker sends them. Setting the same limits again changes nothing.
    postdate.set_lane("crm", rate=2, per="1s", parallelism=1, note="2 a second, says the contract")
    results = postdate.schedule_batch(
        NewSchedule(sys.argv[1], delay=0, json=contact, lane="crm", retries=5, reference="import-1")
        for contact in contacts
    )
    for contact, result in zip(contacts, results, strict=True):
        print(contact["name"], result)  # a Created, or the error of this one
    lane = postdate.lane("crm")
    print(f"{lane.waiting} wait, {lane.running} run")
