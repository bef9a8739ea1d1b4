"""Who asks, and whether they may: kube-scheduler's delegated authentication and authorisation.

    client certificate of a front proxy, with its headers      client_certificates
    client certificate                                         client_certificates
    bearer token, by TokenReview                               tokens
    nobody of these: system:anonymous                          authentication puts them in order
    may they? system:masters, open paths, SubjectAccessReview  permissions

The API server decides; this process only asks it (`reviews`), remembers answers for ten seconds (`remembered`) and says
no while it cannot ask. Nothing here reads a password or keeps a token: answers are kept under a keyed hash.
"""
